// The viewer of one profile in one file, without a server: `vesta flame -o x.html` and
// /api/v1/flame.html put this script into a page together with a tree.

import { render } from "preact";
import "./shell/tokens.css";
import { applyTheme } from "./app";
import { Empty } from "./parts/states";
import { readAbout, readTree } from "./viewer/load";
import { ViewerPage } from "./viewer/page";
import { whole } from "./viewer/state";

async function start(app: HTMLElement) {
    applyTheme();
    try {
        whole.value = await readTree();
    } catch (e) {
        render(
            <Empty title="The profile in this page cannot be read">
                <p>{e instanceof Error ? e.message : String(e)}</p>
            </Empty>,
            app,
        );
        return;
    }
    if (whole.value) render(<ViewerPage about={readAbout()} />, app);
    else render(<Empty title="No profile in this page" />, app);
}

const app = document.getElementById("app");
if (app) void start(app);
