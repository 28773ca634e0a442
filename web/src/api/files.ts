// Files that were opened in this browser and are not stored anywhere: the page holds their bytes and
// sends them along with each question (POST /api/v1/file/...), the server forgets them at once.

import { signal } from "@preact/signals";

export interface LocalFile {
    key: string; // in addresses: file=KEY
    name: string;
    bytes: Blob;
}

export const localFiles = signal<readonly LocalFile[]>([]);

let next = 1;

export function addLocalFile(name: string, bytes: Blob): LocalFile {
    const file = { key: `${next++}-${name}`, name, bytes };
    localFiles.value = [...localFiles.value, file];
    return file;
}

export function findLocalFile(key: string): LocalFile | undefined {
    return localFiles.value.find((f) => f.key === key);
}

export function dropLocalFile(key: string) {
    localFiles.value = localFiles.value.filter((f) => f.key !== key);
}
