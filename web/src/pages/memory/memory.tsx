export default function MemoryPage() {
    return (
        <div class="page">
            <h1>Memory</h1>
        </div>
    );
}
