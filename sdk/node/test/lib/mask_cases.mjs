// What rules make of texts, for both implementations.

/** In labels and paths; functions stay as they are. */
export const builtInCases = [
    ["Bearer abcdefgh12345678", "Bearer ***"],
    ["authorization: basic dXNlcjpwYXNz", "authorization: basic ***"],
    ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1", "***"],
    ["key AKIAIOSFODNN7EXAMPLE here", "key *** here"],
    ["ghp_0123456789abcdefABCDEF0123456789abcd", "***"],
    ["sk-proj-0123456789abcdef0123", "***"],
    ["https://x/?user=a&password=hunter2&b=c", "https://x/?user=a&password=***&b=c"],
    ["/cb?access_token=zzz", "/cb?access_token=***"],
    ["postgres://bob:hunter2@db:5432/shop", "postgres://bob:***@db:5432/shop"],
    ["-----BEGIN RSA PRIVATE KEY-----\nMIIE", "***"],
    ["/home/bob/src/main.c", "/home/*/src/main.c"],
    ["file:///Users/bob/app/index.js", "file:///Users/*/app/index.js"],
    ["C:\\Users\\bob\\app.js", "C:\\Users\\*\\app.js"],
    ...[
        "checkout",
        "GET /api/users/:id",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/home/app.js",
        "node:internal/process/task_queues",
        "risk-assessment-service-production-eu",
        "0123456789abcdef0123456789abcdef01234567",
        "https://example.com:8080/path@x",
        "github.com/org/repo/pkg.(*Type).Method",
        "v1.2.3-rc1+build.5",
    ].map((text) => [text, text]),
];

/** Rule, role, text, result by this rule alone. */
export const ownCases = [
    ["functions: /(k1)=(k2)/$2 at $1$$/", "functions", "k1=k2,k1=k2", "k2 at k1$,k2 at k1$"],
    ["paths|functions:#^/build/[^/]+/#/build/#", "paths", "/build/1234/a.c", "/build/a.c"],
    ["functions: /a\\/b/c/", "functions", "a/b", "c"],
    ["functions: /w8*/-/", "functions", "w888äw", "-ä-"],
    ["functions: /(?i)q1[a-c]++x?/=/", "functions", "Q1ABCabX Q1", "= Q1"],
    ["functions: /q2(?i:ab)c/=/", "functions", "q2aBc q2ABC Q2abc", "= q2ABC Q2abc"],
    ["functions: /q3(?>a+)ab/=/", "functions", "q3aab", "q3aab"],
    ["functions: /(q4)(?:x|(y))\\1\\Z/<$1|$2>/", "functions", "q4yq4\n", "<q4|y>\n"],
    ["functions: /q4end$/=/", "functions", "q4end\n", "q4end\n"],
    ["functions: /q5[[:alpha:]\\d]+\\Q.+\\E/=/", "functions", "q5a1.+ q5a1x", "= q5a1x"],
    ["functions: /q6.b/=/", "functions", "q6\rb q6\nb q6\u2028b", "= q6\nb ="],
    ["functions: /(?s)q7.b/=/", "functions", "q7\nb", "="],
    ["functions: /(?m)^q8\\h*$/=/", "functions", "q8\nq8 \nx", "=\n=\nx"],
    ["functions: /q9[^\\s-]{2,3}+/=/", "functions", "q9😀é q9\u00a0", "= q9\u00a0"],
    ["functions: /r1(?<name>z+)\\k<name>/$1/", "functions", "r1zzzz", "zz"],
    ["functions: /(?x) r2 [ ] \\d # digits/r2=/", "functions", "r2 7", "r2="],
    ["functions: /r3\\x{41}\\x42\\p{Lu}/=/", "functions", "r3ABÄ r3ABä", "= r3ABä"],
];
