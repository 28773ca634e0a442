import { Skeleton } from "../../../parts/states";

export default function FlamePage() {
    return <Skeleton rows={16} />;
}
