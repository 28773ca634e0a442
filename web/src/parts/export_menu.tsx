// The button that opens what can be taken along (export_panel.tsx).

import { Icon } from "./icons";
import { lazy } from "./lazy";
import { Popover } from "./popover";
import "./export_menu.css";

const ExportPanel = lazy(async () => (await import("./export_panel")).ExportPanel);

/** A view that draws says how what is on screen becomes a picture. */
export const picture: { current: (() => Promise<Blob> | null) | null } = { current: null };

/** Hands bytes to the browser as a download. */
export function download(name: string, bytes: Blob) {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(bytes);
    a.download = name;
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(a.href), 60e3);
}

export function ExportMenu() {
    return (
        <Popover class="button icon" title="Export" align="right" label={<Icon name="export" />}>
            {(close) => <ExportPanel close={close} />}
        </Popover>
    );
}
