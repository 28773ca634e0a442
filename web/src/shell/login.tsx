// What a server with tokens shows first. The token stays in this browser.

import { useState } from "preact/hooks";
import { ApiError, apiUrl, needsLogin, send, setToken, token } from "../api/client";
import { Command } from "../parts/states";

export function Login(props: { version: string }) {
    const [text, setText] = useState("");
    const [problem, setProblem] = useState("");
    const [isBusy, setBusy] = useState(false);

    const keep = () => {
        setToken(text.trim());
        needsLogin.value = false;
    };
    const enter = async (e: Event) => {
        e.preventDefault();
        setBusy(true);
        setProblem("");
        // Tried first, kept when it is good: until then this form stays, with what it has to say.
        token.value = text.trim();
        try {
            await send(apiUrl("types", { from: "now-1m" }));
            keep();
        } catch (e) {
            const error = e as ApiError;
            // "Nothing stored" is a good answer here.
            if (error instanceof ApiError && error.status === 404) {
                keep();
                return;
            }
            token.value = "";
            setProblem(error.message);
            setBusy(false);
        }
    };
    return (
        <main class="login">
            <form class="login-box" onSubmit={enter}>
                <h1>Vesta {props.version}</h1>
                <p class="muted">This server asks for a token with the right to read.</p>
                <label for="token">Token</label>
                <input
                    id="token"
                    type="password"
                    autocomplete="current-password"
                    value={text}
                    onInput={(e) => setText(e.currentTarget.value)}
                />
                {problem && (
                    <p class="login-problem" role="alert">
                        {problem}
                    </p>
                )}
                <button
                    type="submit"
                    class="button primary"
                    disabled={isBusy || text.trim() === ""}
                >
                    Enter
                </button>
                <p class="muted">An administrator makes one on the server:</p>
                <Command text="vesta token create --data vesta-data --name me --roles read" />
            </form>
        </main>
    );
}
