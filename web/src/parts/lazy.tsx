// Pages are loaded when they are first shown. A page that cannot be loaded says so and can be asked
// again: the server may have been updated in between, and its old files gone.

import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { focusFirst } from "./popover";
import { ErrorBox, Skeleton } from "./states";

type Loader = () => Promise<{ default: ComponentType }>;

export function Lazy(props: { load: Loader }) {
    const [page, setPage] = useState<{ load: Loader; Page: ComponentType } | null>(null);
    const [failed, setFailed] = useState(false);

    useEffect(() => {
        let isGone = false;
        setFailed(false);
        props.load().then(
            (m) => !isGone && setPage({ load: props.load, Page: m.default }),
            () => !isGone && setFailed(true),
        );
        return () => {
            isGone = true;
        };
    }, [props.load]);

    if (failed)
        return (
            <ErrorBox
                error={
                    new ApiError(
                        "This part of the page could not be loaded. The server may have been updated.",
                        0,
                        "page",
                    )
                }
                retry={() => location.reload()}
            />
        );
    if (!page || page.load !== props.load) return <Skeleton />;
    return <page.Page />;
}

/**
 * A component that is loaded when it is first shown: what is inside of menus and panels. In a
 * popover that waits with the focus, the focus goes on to what has arrived.
 */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
    let loaded: ComponentType<P> | null = null;
    return function LazyPart(props: P) {
        const [Part, setPart] = useState<ComponentType<P> | null>(() => loaded);
        const [failed, setFailed] = useState(false);
        const box = useRef<HTMLSpanElement>(null);
        useEffect(() => {
            if (loaded) return;
            load().then(
                (found) => {
                    loaded = found;
                    setPart(() => found);
                },
                () => setFailed(true),
            );
        }, []);
        useEffect(() => {
            const panel = box.current?.closest<HTMLElement>(".popover-panel");
            if (Part && panel && document.activeElement === panel) focusFirst(panel);
        }, [Part]);
        if (failed) return <p class="muted">This could not be loaded. Reload the page.</p>;
        if (loaded && Part === loaded && !box.current) return <Part {...props} />;
        return (
            <span ref={box} class="lazy">
                {Part && <Part {...props} />}
            </span>
        );
    };
}
