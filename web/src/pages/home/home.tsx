// Where everybody arrives: from the symptom to the right view, and what changed lately. A server
// without data teaches how to send some.

import { useEffect, useState } from "preact/hooks";
import { askServices } from "../../api/questions";
import { ticks } from "../../app";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { Deployments, Services } from "./changes";
import { FirstRun, Recipes } from "./first_run";
import { Wrong } from "./wrong";
import "./home.css";

const LOOK_AGAIN_MS = 3000;

async function askAll(signal: AbortSignal) {
    const recent = await askServices("now-24h", "now", signal);
    if (recent.length > 0) return { services: recent, isOld: false };
    // Nothing today is not nothing ever.
    return { services: await askServices("now-365d", "now", signal), isOld: true };
}

export default function HomePage() {
    const [look, setLook] = useState(0);
    const all = useQuery("home.services", askAll, ticks.value + look);
    const isEmpty = all.data?.services.length === 0;
    useEffect(() => {
        if (!isEmpty) return;
        const timer = setInterval(() => {
            if (!document.hidden) setLook((n) => n + 1);
        }, LOOK_AGAIN_MS);
        return () => clearInterval(timer);
    }, [isEmpty]);

    if (all.error && !all.data) return <ErrorBox error={all.error} retry={all.retry} />;
    if (!all.data) return <Skeleton rows={12} />;
    if (isEmpty) return <FirstRun />;
    const { services, isOld } = all.data;
    const now = Date.now();
    return (
        <Loading isOld={all.isOld}>
            <div class="page home">
                <h1>Home</h1>
                {isOld && (
                    <p class="home-stale" role="status">
                        Nothing has arrived in the last 24 h. Is the agent running? What is older is
                        still here.
                    </p>
                )}
                <div class="home-columns">
                    <Wrong services={services} now={now} />
                    <div class="home-changes">
                        <h2>What changed?</h2>
                        <Services services={services} now={now} />
                        <Deployments services={services} now={now} />
                        <details class="home-more-data">
                            <summary>Send more data</summary>
                            <Recipes />
                        </details>
                    </div>
                </div>
            </div>
        </Loading>
    );
}
