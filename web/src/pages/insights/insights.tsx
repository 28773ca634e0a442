export default function InsightsPage() {
    return (
        <div class="page">
            <h1>Insights</h1>
        </div>
    );
}
