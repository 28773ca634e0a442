// A chart over time as a thing on the page: a canvas, and a surface over its plot where the pointer
// asks for values and drags a selection. time_draw.ts draws it.

import {
    type ChartData,
    type ChartLook,
    drawChart,
    nearest,
    type Plot,
    plotOf,
    timeAt,
} from "./time_draw";

export interface Selection {
    from: number; // seconds since 1970
    until: number;
    isShift: boolean;
    isAlt: boolean;
}

export interface TimeChartEvents {
    onHover(index: number | null): void; // the nearest of x
    onSelect(s: Selection): void;
}

const MIN_DRAG = 4; // px: less is a click

/** What is dragged: from where to where, in pixels of the plot. */
interface Drag {
    start: number;
    end: number;
    isShift: boolean;
    isAlt: boolean;
}

/** The times between two places of a plot; null: too near to be meant. */
export function selectionOf(plot: Plot, d: Drag): Selection | null {
    if (Math.abs(d.end - d.start) < MIN_DRAG) return null;
    const from = timeAt(plot, Math.min(d.start, d.end));
    const until = timeAt(plot, Math.max(d.start, d.end));
    return until > from ? { from, until, isShift: d.isShift, isAlt: d.isAlt } : null;
}

export class TimeChart {
    readonly canvas: HTMLCanvasElement;
    readonly surface: HTMLElement;
    private readonly sizes: ResizeObserver;
    private data: ChartData | null = null;
    private look: ChartLook | null = null;
    private height = 0;
    private plot: Plot | null = null;
    private selected: readonly [number, number] | null = null;
    private drag: Drag | null = null;
    private cursor: number | null = null;
    private told: number | null = null;
    private scheduled = 0;

    constructor(
        private readonly host: HTMLElement,
        private readonly events: TimeChartEvents,
    ) {
        const doc = host.ownerDocument;
        this.canvas = doc.createElement("canvas");
        this.canvas.className = "timeline-canvas";
        this.surface = doc.createElement("div");
        this.surface.className = "timeline-surface";
        host.append(this.canvas, this.surface);
        this.listen();
        // At once: in the next frame, what is drawn now would be seen stretched.
        this.sizes = new ResizeObserver(() => this.draw());
        this.sizes.observe(host);
    }

    destroy() {
        cancelAnimationFrame(this.scheduled);
        this.sizes.disconnect();
        this.canvas.remove();
        this.surface.remove();
        this.tell(null);
    }

    update(data: ChartData, look: ChartLook, height: number) {
        this.data = data;
        this.look = look;
        this.height = height;
        const { pad } = look;
        Object.assign(this.surface.style, {
            left: `${pad.left}px`,
            right: `${pad.right}px`,
            top: `${pad.top}px`,
            height: `${height - pad.top - pad.bottom}px`,
        });
        this.canvas.style.height = `${height}px`;
        if (this.told !== null) this.hover(this.cursor);
        this.invalidate();
    }

    /** Shows these times (seconds since 1970) as selected. */
    select(times: readonly [number, number] | null) {
        this.selected = times;
        this.invalidate();
    }

    // ---- Drawing

    /** Draws before the next frame is shown. */
    private invalidate() {
        if (this.scheduled === 0) this.scheduled = requestAnimationFrame(() => this.draw());
    }

    /** Where things are now: the host may have another width than when it was drawn. */
    private measured(): Plot | null {
        if (!this.data || !this.look) return null;
        return plotOf(this.data, this.look, this.host.clientWidth, this.height);
    }

    private draw() {
        this.scheduled = 0;
        const context = this.canvas.getContext("2d");
        this.plot = this.measured();
        if (!context || !this.plot || !this.data || !this.look) return;
        const ratio = devicePixelRatio || 1;
        const width = this.host.clientWidth;
        const [w, h] = [Math.round(width * ratio), Math.round(this.height * ratio)];
        // Setting a size clears the canvas, and is not cheap.
        if (this.canvas.width !== w) this.canvas.width = w;
        if (this.canvas.height !== h) this.canvas.height = h;
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, this.height);
        const dragged = this.drag && selectionOf(this.plot, this.drag);
        drawChart(context, {
            plot: this.plot,
            data: this.data,
            look: this.look,
            selected: dragged ? [dragged.from, dragged.until] : this.selected,
            cursor: this.cursor,
        });
    }

    // ---- The pointer

    private xOf(e: PointerEvent): number {
        return e.clientX - this.surface.getBoundingClientRect().left;
    }

    private tell(index: number | null) {
        if (index === null && this.told === null) return;
        this.told = index;
        this.events.onHover(index);
    }

    private hover(x: number | null) {
        const plot = this.measured();
        this.cursor = x === null || !plot ? null : Math.max(0, Math.min(plot.width, x));
        const i =
            plot && this.cursor !== null
                ? nearest(this.data?.x ?? [], timeAt(plot, this.cursor))
                : -1;
        this.tell(i < 0 ? null : i);
        this.invalidate();
    }

    private listen() {
        const { surface } = this;
        surface.addEventListener("pointerdown", (e) => {
            if (e.button !== 0 || !e.isPrimary) return;
            surface.setPointerCapture(e.pointerId); // a drag may end outside
            const x = this.xOf(e);
            this.drag = { start: x, end: x, isShift: e.shiftKey, isAlt: e.altKey };
        });
        surface.addEventListener("pointermove", (e) => {
            if (!e.isPrimary) return;
            if (this.drag) this.drag.end = this.xOf(e);
            this.hover(this.xOf(e));
        });
        surface.addEventListener("pointerup", (e) => {
            const { drag } = this;
            const plot = this.measured();
            if (!drag || !plot || !e.isPrimary) return;
            this.drag = null;
            this.invalidate();
            const s = selectionOf(plot, { ...drag, end: this.xOf(e) });
            if (s) this.events.onSelect(s);
        });
        surface.addEventListener("pointercancel", () => {
            this.drag = null;
            this.hover(null);
        });
        surface.addEventListener("pointerleave", () => {
            if (!this.drag) this.hover(null);
        });
    }
}
