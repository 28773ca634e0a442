export default function FleetPage() {
    return (
        <div class="page">
            <h1>Fleet</h1>
        </div>
    );
}
