// A small picture of values over time, for tables. The numbers beside it say the same.

export function Sparkline(props: { values: readonly number[]; width?: number; height?: number }) {
    const { values, width = 96, height = 20 } = props;
    const max = Math.max(...values, 0);
    if (max === 0) return <span class="muted">–</span>;
    const step = width / values.length;
    const bar = Math.max(1, step - 1);
    const d = values
        .map((v, i) => {
            if (v <= 0) return "";
            const h = Math.max(1, (v / max) * (height - 1));
            return `M${(i * step).toFixed(1)} ${height}v${(-h).toFixed(1)}h${bar.toFixed(1)}v${h.toFixed(1)}z`;
        })
        .join("");
    return (
        <svg class="sparkline" width={width} height={height} aria-hidden="true">
            <path d={d} fill="currentColor" />
        </svg>
    );
}
