export default function TracesPage() {
    return (
        <div class="page">
            <h1>Traces</h1>
        </div>
    );
}
