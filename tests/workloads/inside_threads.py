"""Threads of Python that allocate large objects, counted: printed as JSON."""
import json
import threading

kept = []


def work():
    for i in range(200):
        block = bytearray(100_000)
        if i % 10 == 0:
            kept.append(block)


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"made": 3 * 200 * 100_000, "kept": len(kept) * 100_000, "threads": 3}))
