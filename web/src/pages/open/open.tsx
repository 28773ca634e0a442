export default function OpenPage() {
    return (
        <div class="page">
            <h1>Open file</h1>
        </div>
    );
}
