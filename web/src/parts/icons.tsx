// One set of icons: 20 px, strokes of 1.5 px, drawn here.

import type { PageName } from "../core/url";

const PATHS: Record<string, string> = {
    home: "M3 9.500 10 3.500l7 6M5 8.500V16.500h10V8.500M8.500 16.500v-4.500h3v4.500",
    explore: "M3 16.500h14M4.500 13.500h11v-3h-11zM6.500 10.500h6v-3h-6zM8 7.500h2.500v-3H8z",
    compare: "M10 3v14M3.500 6h4v9h-4zM12.500 9h4v6h-4z",
    traces: "M3 5h8M6 8.500h9M8 12h4M10 15.500h7",
    memory: "M4.500 4.500h11v11h-11zM7.500 7.500h5v5h-5zM7 2.500v2M13 2.500v2M7 15.500v2M13 15.500v2M2.500 7h2M2.500 13h2M15.500 7h2M15.500 13h2",
    insights:
        "M7.500 14.500h5M8.500 17h3M7.500 14.500c0-2-2.500-3-2.500-6a5 5 0 0 1 10 0c0 3-2.500 4-2.500 6",
    fleet: "M3.500 4h13v4h-13zM3.500 12h13v4h-13zM6 6h.01M6 14h.01",
    triggers: "M11 2.500 4.500 11.500H9l-.500 6L15.500 8.500H11z",
    admin: "M10 7.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5zM10 2.500v2.500M10 15v2.500M2.500 10H5M15 10h2.500M4.700 4.700l1.800 1.800M13.500 13.500l1.800 1.800M15.300 4.700l-1.800 1.800M6.500 13.500l-1.800 1.800",
    open: "M3 15.500v-11h5l2 2h7v9zM10 13V9M8 11l2-2 2 2",
    theme: "M10 3a7 7 0 1 0 7 7 5.500 5.500 0 0 1-7-7z",
    refresh: "M16 10a6 6 0 1 1-1.800-4.300M16 3v3.500h-3.500",
    share: "M13.500 7a2 2 0 1 0-2-2M6.500 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM13.500 17a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM13.500 7a2 2 0 0 1-1.700-1M8.300 9l3.500-2.800M8.300 11l3.500 2.800",
    export: "M10 3v9M6.500 8.500 10 12l3.500-3.500M4 16.500h12",
    more: "M5 10h.01M10 10h.01M15 10h.01",
    leave: "M8 3.500H4v13h4M8.500 10H16.500M13.500 7l3 3-3 3",
    help: "M7.500 7.500a2.500 2.500 0 1 1 3.500 2.300c-.700.400-1 .900-1 1.700M10 14.500h.01",
    pin: "M4 3.500v13M8 10h8M12.500 6.500 16 10l-3.500 3.500",
    search: "M9 4a5 5 0 1 0 0 10A5 5 0 0 0 9 4zM12.600 12.600 16.500 16.500",
    plus: "M10 4.500v11M4.500 10h11",
    minus: "M4.500 10h11",
    left: "M12 5l-5 5 5 5",
    right: "M8 5l5 5-5 5",
    up: "M5 12l5-5 5 5",
    down: "M5 8l5 5 5-5",
    close: "M5.500 5.500l9 9M14.500 5.500l-9 9",
};

export function Icon(props: { name: PageName | string; size?: number }) {
    const size = props.size ?? 20;
    return (
        <svg
            width={size}
            height={size}
            viewBox="0 0 20 20"
            fill="none"
            stroke="currentColor"
            stroke-width="1.5"
            stroke-linecap="round"
            stroke-linejoin="round"
            aria-hidden="true"
        >
            <path d={PATHS[props.name] ?? PATHS.more} />
        </svg>
    );
}
