// An address of every page and view, over the data of seed.mjs.

export const ADDRESSES = {
    home: "/",
    explore: "/explore?s=checkout&t=cpu&from=now-2h",
    icicle: "/explore?s=checkout&t=cpu&from=now-2h&view=icicle",
    top: "/explore?s=checkout&t=cpu&from=now-2h&view=top",
    tree: "/explore?s=checkout&t=cpu&from=now-2h&view=tree",
    callers: "/explore?s=checkout&t=cpu&from=now-2h&view=callers&sel=example.com/shop/cart.Total",
    graph: "/explore?s=checkout&t=cpu&from=now-2h&view=graph",
    source: "/explore?s=checkout&t=cpu&from=now-2h&view=source&source=/src/shop/cart.go",
    heat: "/explore?s=checkout&t=cpu&from=now-2h&view=heat",
    labels: "/explore?s=checkout&t=cpu&from=now-2h&view=labels&by=service.version",
    waits: "/explore?s=checkout&t=cpu&from=now-2h&view=waits",
    compare: "/compare?s=checkout&t=cpu&from=now-1h&a.s=checkout&a.t=cpu&a.from=now-2h&a.until=now-1h",
    function: "/function?sel=example.com/shop/cart.Total&from=now-2h&t=cpu",
    open: "/open",
    traces: "/traces",
    memory: "/memory?s=checkout&from=now-2h",
    insights: "/insights?s=checkout&from=now-2h",
    fleet: "/fleet",
    triggers: "/triggers",
    admin: "/admin",
};
