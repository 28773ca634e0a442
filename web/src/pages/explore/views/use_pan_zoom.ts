// Moving and scaling a picture with the wheel, by dragging, with two fingers and with buttons.

import { useEffect, useRef, useState } from "preact/hooks";

export interface Camera {
    scale: number;
    x: number; // of the picture's origin, in pixels of the box
    y: number;
}

const LEAST = 0.1;
const MOST = 4;
const READABLE = 0.75;

export function zoomCamera(c: Camera, factor: number, x: number, y: number): Camera {
    const scale = Math.min(MOST, Math.max(LEAST, c.scale * factor));
    const f = scale / c.scale;
    return { scale, x: x - (x - c.x) * f, y: y - (y - c.y) * f };
}

interface Size {
    width: number;
    height: number;
}

/** All of it. */
export function wholeCamera(picture: Size, box: Size): Camera {
    const margin = 24;
    const scale = Math.min(
        1,
        (box.width - 2 * margin) / Math.max(1, picture.width),
        (box.height - 2 * margin) / Math.max(1, picture.height),
    );
    return {
        scale: Math.max(LEAST, scale),
        x: (box.width - picture.width * scale) / 2,
        y: (box.height - picture.height * scale) / 2,
    };
}

/** All of it if that is readable; its top otherwise, with the place that matters in the middle. */
export function firstCamera(picture: Size, box: Size, middle: number): Camera {
    const whole = wholeCamera(picture, box);
    if (whole.scale >= READABLE) return whole;
    return { scale: READABLE, x: box.width / 2 - middle * READABLE, y: 24 };
}

/** `key`: another picture begins anew; `middle`: what to begin with. */
export function usePanZoom(picture: Size, key: string, middle: number) {
    const box = useRef<HTMLDivElement>(null);
    const [camera, setCamera] = useState<Camera>({ scale: 1, x: 0, y: 0 });
    const fingers = useRef(new Map<number, { x: number; y: number }>());
    const hasMoved = useRef(false);

    const size = () => ({
        width: box.current?.clientWidth ?? 0,
        height: box.current?.clientHeight ?? 0,
    });
    const fitAll = () => setCamera(wholeCamera(picture, size()));
    useEffect(() => setCamera(firstCamera(picture, size(), middle)), [key]);

    useEffect(() => {
        const el = box.current;
        if (!el) return;
        // Not with onWheel: that one is passive, and the page would scroll as well.
        const onWheel = (e: WheelEvent) => {
            e.preventDefault();
            const at = el.getBoundingClientRect();
            if (e.shiftKey) setCamera((c) => ({ ...c, x: c.x - e.deltaY - e.deltaX }));
            else {
                const factor = Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.0015));
                setCamera((c) => zoomCamera(c, factor, e.clientX - at.left, e.clientY - at.top));
            }
        };
        el.addEventListener("wheel", onWheel, { passive: false });
        return () => el.removeEventListener("wheel", onWheel);
    }, []);

    const zoom = (factor: number) => {
        const { width, height } = size();
        setCamera((c) => zoomCamera(c, factor, width / 2, height / 2));
    };
    const onPointerDown = (e: PointerEvent) => {
        if (e.button !== 0) return;
        fingers.current.set(e.pointerId, { x: e.clientX, y: e.clientY });
        hasMoved.current = false;
    };
    const onPointerMove = (e: PointerEvent) => {
        const old = fingers.current.get(e.pointerId);
        if (!old || !box.current) return;
        const [dx, dy] = [e.clientX - old.x, e.clientY - old.y];
        if (!hasMoved.current && Math.abs(dx) + Math.abs(dy) < 4) return;
        if (!hasMoved.current) box.current.setPointerCapture(e.pointerId);
        hasMoved.current = true;
        const other = [...fingers.current].find(([id]) => id !== e.pointerId)?.[1];
        fingers.current.set(e.pointerId, { x: e.clientX, y: e.clientY });
        if (!other) {
            setCamera((c) => ({ ...c, x: c.x + dx, y: c.y + dy }));
            return;
        }
        const before = Math.hypot(old.x - other.x, old.y - other.y);
        const now = Math.hypot(e.clientX - other.x, e.clientY - other.y);
        const at = box.current.getBoundingClientRect();
        const x = (e.clientX + other.x) / 2 - at.left;
        const y = (e.clientY + other.y) / 2 - at.top;
        setCamera((c) => zoomCamera(c, now / Math.max(1, before), x, y));
    };
    const onPointerUp = (e: PointerEvent) => {
        fingers.current.delete(e.pointerId);
    };
    /** Moves until a place of the picture is in sight. */
    const show = (x: number, y: number, width: number, height: number) => {
        const s = size();
        setCamera((c) => {
            const near = (at: number, half: number, most: number) =>
                Math.min(Math.max(at, half + 8), Math.max(half + 8, most - half - 8));
            const [px, py] = [c.x + x * c.scale, c.y + y * c.scale];
            return {
                ...c,
                x: c.x + near(px, (width * c.scale) / 2, s.width) - px,
                y: c.y + near(py, (height * c.scale) / 2, s.height) - py,
            };
        });
    };
    return {
        box,
        camera,
        fitAll,
        zoom,
        show,
        hasMoved: () => hasMoved.current,
        handlers: {
            onPointerDown,
            onPointerMove,
            onPointerUp,
            onPointerCancel: onPointerUp,
        },
    };
}
