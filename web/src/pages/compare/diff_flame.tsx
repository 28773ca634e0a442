import type { DiffMode } from "../../core/url";
import type { Sides } from "./sides";
export function DiffFlame(_props: { sides: Sides; mode: DiffMode }) {
    return null;
}
export function SideBySide(_props: { sides: Sides }) {
    return null;
}
