// A server that holds nothing yet: how to send something, ready to be copied. The page looks again by
// itself until there is data.

import { href, pageState } from "../../app";
import { recipes } from "../../core/addresses";
import { Icon } from "../../parts/icons";
import { Command } from "../../parts/states";
import { ourWays } from "../../parts/ways";

export function Recipes() {
    return (
        <div class="home-recipes">
            {recipes(ourWays()).map((r) => (
                <section key={r.id} class="home-recipe">
                    <h2>{r.title}</h2>
                    <p class="muted">{r.text}</p>
                    {r.commands.map((c) => (
                        <Command key={c.text} label={c.label} text={c.text} />
                    ))}
                </section>
            ))}
        </div>
    );
}

export function FirstRun() {
    const { needsToken } = ourWays();
    return (
        <div class="page">
            <h1>Send the first profile</h1>
            <p class="lead">
                This server holds no profiles yet. Pick one way; the commands have its address in
                them. This page notices by itself when something arrives.
            </p>
            <p class="home-waiting" role="status">
                <span class="home-pulse" aria-hidden="true" />
                Waiting for data …
            </p>
            {needsToken && (
                <p class="muted">
                    Senders need a token with the role <code>ingest</code>: make one under{" "}
                    <a href={href(pageState("admin"))}>Admin</a> and put it where the commands say
                    YOUR_TOKEN.
                </p>
            )}
            <Recipes />
            <p>
                <a class="button" href={href(pageState("open"))}>
                    <Icon name="open" /> Only look at a file
                </a>
            </p>
        </div>
    );
}
