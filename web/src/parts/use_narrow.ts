// Whether the screen is as narrow as a telephone's: tables leave columns out then.

import { useEffect, useState } from "preact/hooks";

const QUERY = "(max-width: 720px)";

export function useNarrow(): boolean {
    const [isNarrow, setNarrow] = useState(() => matchMedia(QUERY).matches);
    useEffect(() => {
        const media = matchMedia(QUERY);
        const onChange = () => setNarrow(media.matches);
        media.addEventListener("change", onChange);
        return () => media.removeEventListener("change", onChange);
    }, []);
    return isNarrow;
}
