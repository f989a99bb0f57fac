from da_bench import markdown


def rate(median):
    return {"median": median, "lowest": median - 1, "highest": median + 1, "sessions": [median - 1, median, median + 1]}


CONTENT = {
    "measurement": "compiled step",
    "machine": {
        "jax": "0.12.0",
        "jaxlib": "0.12.0",
        "python": "3.13.0",
        "processor": "Xeon",
        "cores": 4,
        "platform": "gpu",
        "device": "Tesla T4",
        "date": "2026-12-02",
    },
    "results": [
        {
            "model": "mlp 4x512, batch 256",
            "sessions": 3,
            "steps_per_second": {
                "loop, operation by operation": rate(10.0),
                "loop": rate(58.44),
                "compiled": rate(5663.6),
            },
            "ratios": {"compiled / loop, operation by operation": 566.36, "compiled / loop": 96.9},
            "compile_seconds": 0.18,
            "comparison": {
                "steps": 200,
                "relative_difference": {"1": 0.0, "10": 0.0, "50": 7.89e-08, "200": 1.04e-07},
                "same_bits": {"losses": False, "parameters": False},
            },
        }
    ],
    "claims": [{"claim": "It is fast", "verdict": "holds", "line": "It is fast: holds (mlp: 96.90x)"}],
}


def test_markdown_of_a_made_file():
    text = markdown([CONTENT])
    assert "| mlp 4x512, batch 256 | GPU | 10 (9 to 11) | 58.4 (57.4 to 59.4) | 5664 (5663 to 5665) | 566.36x |" in text
    assert "| 566.36x | 96.90x | 0.18 |" in text
    assert "| GPU | 0 | 0 | 7.89e-08 | 1.04e-07 | NOT the same bits after 200 steps |" in text
    assert (
        "* compiled step: Tesla T4, Xeon, 4 cores, jax 0.12.0, Python 3.13.0, 2026-12-02; median of 3 sessions" in text
    )
    assert "Claims, GPU:\n\n1. It is fast: holds (mlp: 96.90x)" in text
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)
