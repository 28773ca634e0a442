// A flame graph as a picture to keep: what is in view, all of its rows, with title, total and date.

import { PITCH, rowsInView, rowsWithin } from "./flame_camera";
import { Brushes, drawFlame, type Picture } from "./flame_draw";
import { type FlameOptions, sceneOf } from "./flame_scene";
import type { FrameTree } from "./frame_tree";
import { amountText } from "./units";

const HEAD = 48;
const RATIO = 2;
const MAX_ROWS = 400; // browsers have an end at some 16,000 pixels

export interface PngOptions extends Omit<FlameOptions, "tree"> {
    title: string;
    subtitle?: string; // the selection
    from?: number; // the range of x, 0 .. 1
    to?: number;
    width?: number; // CSS pixels
    date?: Date;
}

function drawHead(ctx: CanvasRenderingContext2D, tree: FrameTree, o: PngOptions, width: number) {
    const date = (o.date ?? new Date()).toISOString().slice(0, 16).replace("T", " ");
    const right = `${amountText(tree.head.total || tree.total[0], o.unit)} · ${date} UTC`;
    const pad = 12 * RATIO;
    ctx.direction = "ltr";
    ctx.textBaseline = "alphabetic";
    ctx.fillStyle = o.theme.muted;
    ctx.font = `${12 * RATIO}px ${o.theme.sans}`;
    ctx.textAlign = "right";
    ctx.fillText(right, width - pad, 20 * RATIO);
    const room = width - 3 * pad - ctx.measureText(right).width;
    ctx.textAlign = "left";
    if (o.subtitle) ctx.fillText(o.subtitle.slice(0, 400), pad, 38 * RATIO, width - 2 * pad);
    ctx.fillStyle = o.theme.text;
    ctx.font = `600 ${14 * RATIO}px ${o.theme.sans}`;
    ctx.fillText(o.title.slice(0, 400), pad, 20 * RATIO, Math.max(1, room));
}

export function flameToPng(tree: FrameTree, o: PngOptions): Promise<Blob> {
    const scene = sceneOf({ ...o, tree }, null);
    const from = o.from ?? 0;
    const to = o.to ?? 1;
    const nRows = Math.min(MAX_ROWS, rowsWithin(scene.layout, from, to));
    const width = Math.round((o.width ?? 1200) * RATIO);
    const picture: Picture = {
        width,
        height: nRows * PITCH * RATIO,
        ratio: RATIO,
        from,
        to,
        rows: rowsInView(0, nRows * PITCH, nRows, []),
        isIcicle: o.isIcicle,
    };
    const boxes = document.createElement("canvas");
    boxes.width = width;
    boxes.height = picture.height;
    const all = document.createElement("canvas");
    all.width = width;
    all.height = picture.height + (HEAD + 8) * RATIO;
    const ctx = all.getContext("2d");
    const boxesContext = boxes.getContext("2d");
    if (!ctx || !boxesContext) return Promise.reject(new Error("this browser has no canvas"));
    drawFlame(boxesContext, scene, picture, new Brushes());
    ctx.fillStyle = o.theme.surface;
    ctx.fillRect(0, 0, all.width, all.height);
    drawHead(ctx, tree, o, width);
    ctx.drawImage(boxes, 0, HEAD * RATIO);
    return new Promise((done, fail) => {
        all.toBlob((b) => (b ? done(b) : fail(new Error("the picture is too large"))), "image/png");
    });
}
