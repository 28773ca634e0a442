export default function ComparePage() {
    return (
        <div class="page">
            <h1>Compare</h1>
        </div>
    );
}
