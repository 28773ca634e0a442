import { defineConfig } from "vite";

// The pages that the server embeds. Addresses of files are relative to the page (<base href>), so
// that the server may live under any path of a reverse proxy.
export default defineConfig({
    base: "./",
    esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
    build: {
        outDir: process.env.VESTA_WEB_OUT ?? "dist",
        emptyOutDir: true,
        target: "es2022",
        modulePreload: { polyfill: false },
        assetsInlineLimit: 0,
        cssCodeSplit: true,
        reportCompressedSize: false,
        chunkSizeWarningLimit: 400,
    },
    server: {
        // `npm run dev` beside a server that runs on its usual port.
        proxy: { "/api": "http://127.0.0.1:4040" },
    },
    test: { include: ["test/**/*.test.ts"], environment: "node", testTimeout: 60_000 },
} as Parameters<typeof defineConfig>[0]);
