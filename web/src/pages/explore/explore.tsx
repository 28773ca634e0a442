// Explore: one question as a sentence, its answer over time, and as the picture of one's choice.

import { useEffect } from "preact/hooks";
import { findLocalFile } from "../../api/files";
import { detail, href, pageState, state, ticks } from "../../app";
import { emptyScope, type ViewName } from "../../core/url";
import { DetailsBar, status } from "../../parts/details_bar";
import { FilterChips } from "../../parts/filter_chips";
import { FrameMenu } from "../../parts/frame_menu";
import { queryKey } from "../../parts/query_key";
import { Lazy, lazy } from "../../parts/lazy";
import { SentenceBar } from "../../parts/sentence_bar";
import { Empty, ErrorBox } from "../../parts/states";
import { useDefaultType } from "./defaults";
import { useExploreKeys } from "./explore_keys";
import { shown, useHead } from "./head";
import { TabsLine } from "./tabs_line";
import { ThinNote } from "./thin_note";
import { TimelineStrip } from "./timeline_strip";
import FlamePage from "./views/flame_page";
import "./explore.css";

type Loader = Parameters<typeof Lazy>[0]["load"];

const views: Record<Exclude<ViewName, "flame" | "icicle">, Loader> = {
    top: () => import("./views/top"),
    tree: () => import("./views/tree"),
    callers: () => import("./views/callers"),
    graph: () => import("./views/graph"),
    source: () => import("./views/source"),
    heat: () => import("./views/heat"),
    labels: () => import("./views/labels"),
    waits: () => import("./views/waits"),
};
const FileTools = lazy(async () => (await import("./file_tools")).FileTools);
const loadNoData: Loader = () => import("./no_data");
const loadNothingLeft: Loader = () => import("./nothing_left");
const loadTrail: Loader = () => import("../../parts/trail");

function View(props: { name: ViewName }) {
    if (props.name === "flame" || props.name === "icicle") return <FlamePage />;
    return <Lazy load={views[props.name]} />;
}

/** The view, or why there is none. */
function Body() {
    const { scope, view } = state.value;
    const open = useDefaultType();
    useHead();
    // What stood in for the view does not ask: another question gets a view again.
    const question = `${view.view} ${queryKey(scope, view)} ${ticks.value}`;
    useEffect(
        () => () => {
            const { error, head } = shown.peek();
            if (error || head?.total === 0) shown.value = { head: undefined, error: null };
        },
        [question],
    );
    if (scope.file && !findLocalFile(scope.file))
        return (
            <Empty title="The file is not here">
                <p>
                    This file was only in the tab that opened it: a reload or another window does
                    not have it. Open it again; to share it, keep it on the server.
                </p>
                <a class="button" href={href(pageState("open", { scope: emptyScope() }))}>
                    Open file
                </a>
            </Empty>
        );
    if (open.error) return <ErrorBox error={open.error} />;
    const { error, head } = shown.value;
    if (open.isEmpty || error?.code === "no_data") return <Lazy load={loadNoData} />;
    if (head && head.total === 0 && view.filters.length > 0) return <Lazy load={loadNothingLeft} />;
    if (!scope.type && !scope.file) return null;
    return <View name={view.view} />;
}

export default function ExplorePage() {
    const s = state.value;
    useExploreKeys();
    useEffect(
        () => () => {
            detail.value = null;
            status.value = null;
        },
        [],
    );
    return (
        <div class="explore">
            <SentenceBar types={shown.value.head?.types?.map((t) => t.type)}>
                {s.scope.file && <FileTools />}
            </SentenceBar>
            {s.symptom && <Lazy load={loadTrail} />}
            {!s.scope.file && <TimelineStrip />}
            <TabsLine />
            <FilterChips />
            <ThinNote />
            <div
                class="explore-view"
                id="view"
                role="tabpanel"
                aria-labelledby={`tab-${s.view.view}`}
            >
                <Body />
            </div>
            <DetailsBar />
            <FrameMenu />
        </div>
    );
}
