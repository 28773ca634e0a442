// Erasing profiles for good. They are counted first, and a word has to be typed.

import { useSignal } from "@preact/signals";
import { erase } from "../../api/admin";
import type { Stat } from "../../api/facts";
import { refresh, say, state } from "../../app";
import { countText } from "../../core/units";
import { selectorText } from "../../core/url";
import { Confirm } from "../../parts/confirm";

const profilesText = (n: number) => `${countText(n)} ${n === 1 ? "profile" : "profiles"}`;

export function Erase(props: { stat: Stat }) {
    const { scope } = state.value;
    const query = useSignal(
        scope.service ? selectorText({ ...scope, type: "" }) : '{service.name=""}',
    );
    const from = useSignal(scope.service ? scope.from : "");
    const until = useSignal("now");
    const counted = useSignal<number | null>(null);
    const problem = useSignal("");
    const isAsking = useSignal(false);
    const said = useSignal("");
    const wish = () => ({
        query: query.value.trim(),
        from: from.value.trim(),
        until: until.value.trim(),
    });
    const set = (to: { value: string }) => (e: { currentTarget: HTMLInputElement }) => {
        to.value = e.currentTarget.value;
        counted.value = null;
        said.value = "";
    };
    const count = async (e: Event) => {
        e.preventDefault();
        problem.value = "";
        said.value = "";
        try {
            counted.value = (await erase({ ...wish(), confirm: false })).profiles;
        } catch (e) {
            counted.value = null;
            problem.value = (e as Error).message;
        }
    };
    const n = counted.value;
    return (
        <section class="admin-box admin-danger" aria-labelledby="admin-erase">
            <h2 id="admin-erase">Erase profiles of tenant “{props.stat.tenant}”</h2>
            <p>
                What is erased is gone for good, from disk as well; backups are yours to look after.
                Count first: nothing is erased by that.
            </p>
            <form onSubmit={count} class="admin-erase">
                <label>
                    Selector ({"{}"} is everything)
                    <input class="mono" value={query.value} onInput={set(query)} required />
                </label>
                <label>
                    From (0 is since ever)
                    <input
                        value={from.value}
                        placeholder="now-1d, 2026-03-01T12:00:00Z, 0"
                        onInput={set(from)}
                        required
                    />
                </label>
                <label>
                    Until
                    <input value={until.value} onInput={set(until)} required />
                </label>
                <button type="submit" class="button">
                    Count
                </button>
            </form>
            {problem.value && (
                <p class="admin-bad" role="alert">
                    {problem.value}
                </p>
            )}
            {said.value && <p role="status">{said.value}</p>}
            {n !== null && (
                <p role="status">
                    {n === 0
                        ? "No profile is selected."
                        : `${profilesText(n)} ${n === 1 ? "is" : "are"} selected. `}
                    {n > 0 && (
                        <button
                            type="button"
                            class="button primary confirm-danger"
                            onClick={() => {
                                isAsking.value = true;
                            }}
                        >
                            Erase them …
                        </button>
                    )}
                </p>
            )}
            {isAsking.value && n !== null && (
                <Confirm
                    title={`Erase ${profilesText(n)}?`}
                    action="Erase for good"
                    word="erase"
                    isDanger
                    onYes={async () => {
                        const done = await erase({ ...wish(), confirm: true });
                        said.value = `${profilesText(done.profiles)} ${done.profiles === 1 ? "was" : "were"} erased.`;
                        counted.value = null;
                        say("Erased");
                        refresh();
                    }}
                    onClose={() => {
                        isAsking.value = false;
                    }}
                >
                    <p>
                        <code>{query.value}</code>, from {from.value} until {until.value}.
                    </p>
                </Confirm>
            )}
        </section>
    );
}
