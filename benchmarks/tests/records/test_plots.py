from benchmarks.records.plots import ratio_plot, ratio_svg, training_svgs

from ..benchmark_cases import record, trainings


def test_a_dot_is_at_each_ratio() -> None:
    (axes,) = ratio_plot(record()).axes
    dots = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [1.0, 2.0, 3.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "plain, torch", "FD-SSM, fdsm", "FD-SSM, JAX jit",
    ]  # fmt: skip


def test_plots_are_the_same_every_time() -> None:
    assert ratio_svg(record()) == ratio_svg(record())
    plots = training_svgs(trainings())
    assert list(plots) == ["wine"]
    assert "CPU seconds of training" in plots["wine"]
    assert plots == training_svgs(trainings())
