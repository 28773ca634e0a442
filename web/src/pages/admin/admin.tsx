export default function AdminPage() {
    return (
        <div class="page">
            <h1>Admin</h1>
        </div>
    );
}
