// Pages are loaded when they are first shown. A page that cannot be loaded says so and can be asked
// again: the server may have been updated in between, and its old files gone.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/client";
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
