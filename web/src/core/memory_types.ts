// Which of a service's types are memory: what is held, how many objects, what is allocated. Each
// runtime has its own words.

export interface MemoryTypes {
    held: string; // bytes in use; "": none
    objects: string; // objects in use
    allocated: string; // bytes allocated over time
}

const HELD = [
    "inuse_space",
    "live_bytes",
    "live_heap",
    "inuse_bytes",
    "space",
    "heap",
    "live_size",
];
const OBJECTS = ["inuse_objects", "live_objects", "live", "objects"];
const ALLOCATED = ["alloc_space", "alloc_bytes", "alloc_size", "alloc_in_new_tlab_bytes"];

export function memoryTypes(types: readonly { type: string; unit: string }[]): MemoryTypes {
    const find = (names: string[], fits: (unit: string) => boolean) =>
        names.find((n) => types.some((t) => t.type === n && fits(t.unit))) ?? "";
    const isBytes = (unit: string) => /^(bytes|By|kilobytes)$/.test(unit);
    const isCount = (unit: string) => !isBytes(unit);
    const other = types.find((t) => /^(inuse|live|heap)/.test(t.type) && isBytes(t.unit));
    return {
        held: find(HELD, isBytes) || other?.type || "",
        objects: find(OBJECTS, isCount),
        allocated: find(ALLOCATED, isBytes),
    };
}
