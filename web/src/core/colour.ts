// Colours as numbers: OKLCH to sRGB, mixing, contrast. Packed as canvases store them: red in the
// lowest byte, alpha in the highest.

export type Packed = number;

export function pack(r: number, g: number, b: number, a = 255): Packed {
    return ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

const red = (c: Packed) => c & 255;
const green = (c: Packed) => (c >>> 8) & 255;
const blue = (c: Packed) => (c >>> 16) & 255;

/** "#rgb", "#rrggbb", "rgb(1, 2, 3)"; what cannot be read is grey. */
export function parseColour(text: string): Packed {
    const t = text.trim();
    const hex = /^#([0-9a-f]{3,8})$/i.exec(t)?.[1];
    if (hex && hex.length < 6) {
        const d = [0, 1, 2].map((i) => Number.parseInt(hex[i] + hex[i], 16));
        return pack(d[0], d[1], d[2]);
    }
    if (hex) {
        const v = Number.parseInt(hex.slice(0, 6), 16);
        return pack(v >> 16, (v >> 8) & 255, v & 255);
    }
    const rgb = /^rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)/.exec(t);
    return rgb ? pack(Number(rgb[1]), Number(rgb[2]), Number(rgb[3])) : pack(128, 128, 128);
}

export function cssOf(c: Packed): string {
    const hex = (v: number) => v.toString(16).padStart(2, "0");
    return `#${hex(red(c))}${hex(green(c))}${hex(blue(c))}`;
}

function fromLinear(v: number): number {
    const c = v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, c)));
}

function toLinear(v: number): number {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

/** `hue` in degrees. What sRGB does not have is clipped. */
export function oklch(l: number, chroma: number, hue: number): Packed {
    const h = (hue * Math.PI) / 180;
    const a = chroma * Math.cos(h);
    const b = chroma * Math.sin(h);
    const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
    return pack(
        fromLinear(4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z),
        fromLinear(-1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z),
        fromLinear(-0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z),
    );
}

/** `share` of `a`, the rest of `b`. */
export function mix(a: Packed, b: Packed, share: number): Packed {
    const one = (x: number, y: number) => Math.round(x * share + y * (1 - share));
    return pack(one(red(a), red(b)), one(green(a), green(b)), one(blue(a), blue(b)));
}

export function luminance(c: Packed): number {
    return 0.2126 * toLinear(red(c)) + 0.7152 * toLinear(green(c)) + 0.0722 * toLinear(blue(c));
}

export function contrast(a: Packed, b: Packed): number {
    const x = luminance(a);
    const y = luminance(b);
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** As much of `colour` on `surface` as leaves text in `ink` readable. */
export function readable(colour: Packed, surface: Packed, ink: Packed): Packed {
    for (let share = 0.9; share > 0.2; share -= 0.05) {
        const c = mix(colour, surface, share);
        if (contrast(c, ink) >= 4.6) return c;
    }
    return mix(colour, surface, 0.2);
}
