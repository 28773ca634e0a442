import { describe, expect, it } from "vitest";
import { type Column, nextOrder, rowAfterKey, sortRows } from "../src/parts/data_table";

interface Row {
    name: string;
    cum: number;
}
const columns: Column<Row>[] = [
    { key: "name", title: "", kind: "text", width: "", sort: (r) => r.name, cell: () => null },
    { key: "cum", title: "", kind: "number", width: "", sort: (r) => r.cum, cell: () => null },
    { key: "share", title: "", kind: "number", width: "", cell: () => null },
];
const rows = [
    { name: "b", cum: 1 },
    { name: "a", cum: 3 },
    { name: "c", cum: 1 },
];
const names = (order: string) =>
    sortRows(rows, columns, order)
        .map((r) => r.name)
        .join("");

describe("rows of a table", () => {
    it("fall, or rise, and stay as they came when equal", () => {
        expect(names("cum")).toBe("abc");
        expect(names("-cum")).toBe("bca");
        expect(names("-name")).toBe("abc");
        expect(names("name")).toBe("cba");
    });
    it("stay as they came in an order that is not known", () => {
        expect(names("share")).toBe("bac");
        expect(names("nothing")).toBe("bac");
        expect(names("")).toBe("bac");
    });
    it("turn around at the second click on a header", () => {
        expect(nextOrder(columns[1], "")).toBe("cum");
        expect(nextOrder(columns[1], "cum")).toBe("-cum");
        expect(nextOrder(columns[1], "-cum")).toBe("cum");
        expect(nextOrder(columns[0], "cum")).toBe("-name");
        expect(nextOrder(columns[0], "-name")).toBe("name");
    });
    it("are reached with keys, and not left", () => {
        expect(rowAfterKey("ArrowDown", -1, 3, 10)).toBe(0);
        expect(rowAfterKey("ArrowDown", 2, 3, 10)).toBe(2);
        expect(rowAfterKey("ArrowUp", 0, 3, 10)).toBe(0);
        expect(rowAfterKey("PageDown", 5, 100, 10)).toBe(15);
        expect(rowAfterKey("PageUp", 5, 100, 10)).toBe(0);
        expect(rowAfterKey("End", 0, 3, 10)).toBe(2);
        expect(rowAfterKey("Home", 2, 3, 10)).toBe(0);
        expect(rowAfterKey("x", 1, 3, 10)).toBe(-1);
        expect(rowAfterKey("End", 0, 0, 10)).toBe(-1);
    });
});
