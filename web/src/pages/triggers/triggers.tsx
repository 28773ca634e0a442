export default function TriggersPage() {
    return (
        <div class="page">
            <h1>Triggers</h1>
        </div>
    );
}
