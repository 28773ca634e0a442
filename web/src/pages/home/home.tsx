export default function HomePage() {
    return (
        <div class="page">
            <h1>Home</h1>
        </div>
    );
}
