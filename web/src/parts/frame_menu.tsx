// Shows the menu of a frame (frame_panel.tsx) wherever it was asked for: app.openFrameMenu().

import { signal } from "@preact/signals";
import { menuAt } from "../app";
import { lazy } from "./lazy";
import "./export_menu.css";
import "./frame_menu.css";

const FramePanel = lazy(async () => (await import("./frame_panel")).FramePanel);

/** A path whose hidden children were asked for; the flame view fetches them. */
export const openUnder = signal<readonly string[] | null>(null);

export function FrameMenu() {
    const at = menuAt.value;
    return at ? <FramePanel {...at} /> : null;
}
