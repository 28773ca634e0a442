export default function FunctionPage() {
    return (
        <div class="page">
            <h1>Function</h1>
        </div>
    );
}
