// The filters in force, and the button that adds one (filter_panel.tsx).

import { state } from "../app";
import { lazy } from "./lazy";
import { Popover } from "./popover";
import "./export_menu.css";
import "./filter_chips.css";

const FilterMenu = lazy(async () => (await import("./filter_panel")).FilterMenu);
const FilterList = lazy(async () => (await import("./filter_panel")).FilterList);

export function AddFilter() {
    return (
        <Popover class="button" title="Filter" label="Filter" align="right">
            {(close) => <FilterMenu close={close} />}
        </Popover>
    );
}

/** Nothing when there are no filters. */
export function FilterChips() {
    return state.value.view.filters.length > 0 ? <FilterList /> : null;
}
