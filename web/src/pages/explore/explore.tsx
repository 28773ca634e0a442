export default function ExplorePage() {
    return (
        <div class="page">
            <h1>Explore</h1>
        </div>
    );
}
