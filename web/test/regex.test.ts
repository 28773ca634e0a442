import { describe, expect, it } from "vitest";
import { frameRegex, functionOf } from "../src/core/regex";

describe("names on screen as filters", () => {
    it("takes places off", () => {
        expect(functionOf("main.f /src/a b.go:12", "functions")).toBe("main.f /src/a b.go:12");
        expect(functionOf("main.f /src/a.go:12", "lines")).toBe("main.f");
        expect(functionOf("operator new(unsigned long) new.cc:50:3", "lines")).toBe(
            "operator new(unsigned long)",
        );
        expect(functionOf("00000000004a1b2c main.f /src/a.go:12:7", "addresses")).toBe("main.f");
        expect(functionOf("00000000004a1b2c main.f", "addresses")).toBe("main.f");
        expect(functionOf("f <string>:3", "lines")).toBe("f");
        expect(functionOf("f lib/a.py", "filefunctions")).toBe("f");
        expect(functionOf("f <string>", "filefunctions")).toBe("f");
    });

    it("leaves names with spaces alone where there is no file", () => {
        const name = "operator new(unsigned long)";
        expect(functionOf(name, "filefunctions")).toBe(name);
        expect(functionOf(name, "lines")).toBe(name);
    });

    it("finds what the server has under the name", () => {
        const is = (name: string, group: "packages" | "binaries" | "files", raw: string) =>
            new RegExp(frameRegex(name, group)).test(raw);
        expect(is("net/http", "packages", "net/http.(*conn).serve")).toBe(true);
        expect(is("net/http", "packages", "net/http2.f")).toBe(false);
        expect(is("a::b", "packages", "a::b::f(int)")).toBe(true);
        expect(is("libc.so.6", "binaries", "/usr/lib/libc.so.6")).toBe(true);
        expect(is("libc.so.6", "binaries", "libc.so.6")).toBe(true);
        expect(is("c.so.6", "binaries", "/usr/lib/libc.so.6")).toBe(false);
        expect(is("a.c", "files", "a.c")).toBe(true);
        expect(is("a.c", "files", "a.cc")).toBe(false);
    });
});
