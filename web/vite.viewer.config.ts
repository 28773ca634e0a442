import { defineConfig } from "vite";

// The viewer of a single file: one script and one style sheet, which the program puts into a page
// together with a profile.
export default defineConfig({
    esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
    build: {
        outDir: process.env.VESTA_VIEWER_OUT ?? "dist-viewer",
        emptyOutDir: true,
        target: "es2022",
        modulePreload: { polyfill: false },
        cssCodeSplit: false,
        reportCompressedSize: false,
        lib: {
            entry: "src/viewer.tsx",
            formats: ["iife"],
            name: "vesta",
            fileName: () => "viewer.js",
            cssFileName: "viewer",
        },
    },
    define: { "process.env.NODE_ENV": '"production"' },
});
