import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Selection, selectionOf, TimeChart } from "../src/core/time_chart";
import {
    type ChartData,
    type ChartLook,
    drawChart,
    nearest,
    plotOf,
    runsOf,
    timeAt,
    type Value,
    xOf,
    yOf,
} from "../src/core/time_draw";

const look: ChartLook = {
    ink: "ink",
    grid: "grid",
    surface: "surface",
    accent: "accent",
    accentSoft: "soft",
    font: "11px x",
    hasAxes: true,
    pad: { top: 20, right: 10, bottom: 20, left: 50 },
};
const dataOf = (...values: Value[][]): ChartData => ({
    from: 1000,
    until: 1100,
    x: [1000, 1020, 1040, 1060, 1080],
    lines: values.map((v, i) => ({ values: v, colour: `line ${i}` })),
    unit: "count",
});

/** Writes down what is drawn, each with the colours of that moment. */
function paper() {
    const calls: string[] = [];
    const context: Record<string, unknown> = { measureText: () => ({ width: 20 }) };
    const methods =
        "save restore beginPath rect clip moveTo lineTo stroke fill arc fillText fillRect setLineDash setTransform clearRect";
    for (const name of methods.split(" "))
        context[name] = (...args: unknown[]) => {
            const ink = name === "stroke" ? context.strokeStyle : context.fillStyle;
            const width = name === "stroke" ? context.lineWidth : "";
            calls.push(`${name} ${args.join(" ")} [${ink} ${width}]`);
        };
    return { calls, context: context as unknown as CanvasRenderingContext2D };
}

function drawn(data: ChartData, more: { cursor?: number; selected?: [number, number] } = {}) {
    const { calls, context } = paper();
    drawChart(context, {
        plot: plotOf(data, look, 260, 140),
        data,
        look,
        selected: more.selected ?? null,
        cursor: more.cursor ?? null,
    });
    return calls;
}
const count = (calls: string[], what: RegExp) => calls.filter((c) => what.test(c)).length;

describe("the plot", () => {
    it("maps times to pixels and back", () => {
        const p = plotOf(dataOf([1, 2]), look, 260, 140);
        expect([p.width, p.height]).toEqual([200, 100]);
        expect(xOf(p, 1050)).toBe(100);
        expect(timeAt(p, 100)).toBe(1050);
        expect(timeAt(p, -5)).toBe(1000);
        expect(timeAt(p, 999)).toBe(1100);
    });
    it("begins at zero, with some air above", () => {
        const p = plotOf(dataOf([100, 90]), look, 260, 140);
        expect([p.lo, p.hi]).toEqual([0, 105]);
        expect(yOf(p, 0)).toBe(120);
        expect(yOf(p, 105)).toBe(20);
    });
    it("takes values below zero, none, only zeros, and huge ones", () => {
        const below = plotOf(dataOf([-100, null]), look, 260, 140);
        expect([below.lo, below.hi]).toEqual([-105, 0]);
        for (const values of [[], [0, 0], [null], [Number.NaN, Number.POSITIVE_INFINITY]]) {
            const p = plotOf(dataOf(values), look, 260, 140);
            expect([p.lo, p.hi]).toEqual([0, 0]);
            expect(yOf(p, 0)).toBe(120);
        }
        const huge = plotOf(dataOf([1e308, 5e307]), look, 260, 140);
        expect(yOf(huge, 5e307)).toBeGreaterThan(60);
        expect(yOf(huge, 5e307)).toBeLessThan(80);
    });
    it("of no width or no time is still a plot", () => {
        expect(plotOf(dataOf([1]), look, 0, 0).width).toBe(1);
        const p = plotOf({ ...dataOf([1]), until: 1000 }, look, 260, 140);
        expect(xOf(p, 1000)).toBe(0);
        expect(timeAt(p, 7)).toBe(1000);
    });
});

describe("the nearest point", () => {
    it("is found at both ends and between", () => {
        const x = [10, 20, 40];
        expect([0, 10, 14, 16, 29, 31, 99].map((at) => nearest(x, at))).toEqual([
            0, 0, 0, 1, 1, 2, 2,
        ]);
        expect(nearest([7], 100)).toBe(0);
        expect(nearest([], 100)).toBe(-1);
    });
});

describe("lines", () => {
    it("break at holes and not where there is no point", () => {
        expect(runsOf([1, 2, null, 3, undefined, 4])).toEqual([
            [0, 1],
            [3, 5],
        ]);
        expect(runsOf([null, 1, null])).toEqual([[1]]);
        expect(runsOf([1, Number.NaN, 2])).toEqual([[0], [2]]);
        expect(runsOf([null, undefined])).toEqual([]);
    });
    it("are stroked piece by piece; points alone are dots", () => {
        const calls = drawn(dataOf([1, 2, null, 3, null]));
        expect(count(calls, /^stroke.*\[line 0 1\.5\]/)).toBe(1);
        expect(count(calls, /^arc 170 .*\[line 0 \]/)).toBe(1);
        expect(count(calls, /^fill .*soft/)).toBe(0);
    });
    it("have a fill down to zero when told so", () => {
        const data = dataOf([1, 2, 3, 4, 5]);
        const calls = drawn({ ...data, lines: [{ ...data.lines[0], fill: "soft" }] });
        expect(count(calls, /^fill .*\[soft/)).toBe(1);
        expect(count(calls, /^lineTo 210 120 /)).toBe(1);
    });
    it("are drawn each in its colour", () => {
        const calls = drawn(dataOf([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]));
        expect(count(calls, /^stroke.*\[line 0/)).toBe(1);
        expect(count(calls, /^stroke.*\[line 1/)).toBe(1);
    });
    it("none at all: axes only", () => {
        const calls = drawn({ ...dataOf(), x: [] }, { cursor: 50 });
        expect(count(calls, /^fillText 0 /)).toBe(1);
        expect(count(calls, /line \d/)).toBe(0);
        expect(count(calls, /NaN/)).toBe(0);
    });
});

describe("the cursor and the selection", () => {
    it("mark the nearest point of each line that has one", () => {
        const calls = drawn(dataOf([1, 2, 3, 4, 5], [1, null, 3, 4, 5]), { cursor: 38 });
        expect(count(calls, /^arc 90 .*\[line 0/)).toBe(1);
        expect(count(calls, /^arc 90 .*\[line 1/)).toBe(0);
    });
    it("lie within the plot", () => {
        const calls = drawn(dataOf([1, 2]), { selected: [900, 1050] });
        expect(count(calls, /^fillRect 50 20 100 100 \[soft/)).toBe(1);
        expect(count(drawn(dataOf([1, 2]), { selected: [0, 900] }), /^fillRect/)).toBe(0);
    });
    it("is two times in order, with the keys that were held", () => {
        const p = plotOf(dataOf([1]), look, 260, 140);
        const keys = { isShift: true, isAlt: false };
        expect(selectionOf(p, { start: 150, end: 50, ...keys })).toEqual({
            from: 1025,
            until: 1075,
            ...keys,
        });
        expect(selectionOf(p, { start: 50, end: 53, ...keys })).toBeNull();
        expect(selectionOf(p, { start: -50, end: -10, ...keys })).toBeNull();
    });
});

/** As much of a page as a chart asks for. */
class FakeElement extends EventTarget {
    className = "";
    style: Record<string, string> = {};
    children: FakeElement[] = [];
    clientWidth = 260;
    width = 0;
    height = 0;
    drawing = paper();
    ownerDocument = { createElement: () => new FakeElement() };
    append(...all: FakeElement[]) {
        this.children.push(...all);
    }
    remove() {
        this.className = "gone";
    }
    getContext() {
        return this.drawing.context;
    }
    getBoundingClientRect() {
        return { left: 50 };
    }
    setPointerCapture() {}
}

describe("a chart on a page", () => {
    let frames: (() => void)[] = [];
    let resized = () => {};
    beforeEach(() => {
        frames = [];
        vi.stubGlobal("requestAnimationFrame", (f: () => void) => frames.push(f));
        vi.stubGlobal("cancelAnimationFrame", () => {});
        vi.stubGlobal("devicePixelRatio", 2);
        vi.stubGlobal(
            "ResizeObserver",
            class {
                constructor(f: () => void) {
                    resized = f;
                }
                observe() {}
                disconnect() {}
            },
        );
    });
    afterEach(() => vi.unstubAllGlobals());

    const frame = () => {
        for (const f of frames.splice(0)) f();
    };
    function make(data = dataOf([1, 2, 3, 4, 5])) {
        const host = new FakeElement();
        const hovers: (number | null)[] = [];
        const selections: Selection[] = [];
        const chart = new TimeChart(host as unknown as HTMLElement, {
            onHover: (i) => hovers.push(i),
            onSelect: (s) => selections.push(s),
        });
        chart.update(data, look, 140);
        frame();
        const [canvas, surface] = host.children;
        const point = (type: string, x: number, more = {}) =>
            surface.dispatchEvent(
                Object.assign(new Event(type), {
                    clientX: 50 + x,
                    button: 0,
                    isPrimary: true,
                    pointerId: 1,
                    shiftKey: false,
                    altKey: false,
                    ...more,
                }),
            );
        return { chart, host, canvas, surface, hovers, selections, point };
    }

    it("has as many pixels as the screen, and follows its host", () => {
        const { host, canvas, surface } = make();
        expect([canvas.width, canvas.height]).toEqual([520, 280]);
        expect(count(canvas.drawing.calls, /^setTransform 2 0 0 2/)).toBe(1);
        expect(surface.className).toBe("timeline-surface");
        expect(surface.style).toMatchObject({ left: "50px", right: "10px", height: "100px" });
        host.clientWidth = 160;
        vi.stubGlobal("devicePixelRatio", 1);
        resized();
        frame();
        expect([canvas.width, canvas.height]).toEqual([160, 140]);
    });
    it("tells the nearest point, and when the pointer has left", () => {
        const { hovers, point } = make();
        point("pointermove", 81);
        point("pointermove", 199);
        point("pointerleave", 300);
        expect(hovers).toEqual([2, 4, null]);
    });
    it("selects by dragging, also beyond its edge; a click selects nothing", () => {
        const { selections, point, canvas } = make();
        point("pointerdown", 150, { shiftKey: true, altKey: true });
        point("pointermove", 100);
        frame();
        expect(count(canvas.drawing.calls, /^fillRect 150 20 50 100 \[soft/)).toBe(1);
        point("pointermove", -30);
        point("pointerup", -30);
        expect(selections).toEqual([{ from: 1000, until: 1075, isShift: true, isAlt: true }]);
        point("pointerdown", 100);
        point("pointerup", 101);
        point("pointerdown", 10, { button: 2 });
        point("pointerup", 90, { button: 2 });
        point("pointerdown", 10);
        point("pointercancel", 50);
        point("pointerup", 90);
        expect(selections.length).toBe(1);
    });
    it("shows what is selected until told otherwise", () => {
        const { chart, canvas } = make();
        chart.select([1050, 1100]);
        frame();
        expect(count(canvas.drawing.calls, /^fillRect 150 20 100/)).toBe(1);
        chart.select(null);
        frame();
        expect(count(canvas.drawing.calls, /^fillRect/)).toBe(1);
    });
    it("takes no data, and leaves nothing behind", () => {
        const { chart, hovers, point, canvas, surface } = make({ ...dataOf(), x: [] });
        point("pointermove", 30);
        expect(hovers).toEqual([]);
        chart.update(dataOf([7]), look, 140);
        point("pointermove", 30);
        chart.destroy();
        expect(hovers).toEqual([1, null]);
        expect([canvas.className, surface.className]).toEqual(["gone", "gone"]);
    });
});
