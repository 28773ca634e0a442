// The light theme, as tokens.css has it.

import type { FlameTheme } from "../src/core/flame_colour";

export const THEME: FlameTheme = {
    l: 0.83,
    c: 0.075,
    ink: "#1c1a18",
    text: "#1c1a18",
    muted: "#5c5751",
    surface: "#ffffff",
    line: "#e4e0da",
    accent: "#b93a0a",
    focus: "#1f5fd6",
    less: "#2f6fd6",
    more: "#d9630f",
    same: "#b9b4ac",
    mono: "monospace",
    sans: "sans-serif",
};
