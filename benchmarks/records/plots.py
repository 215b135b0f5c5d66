"""Plots of ratios."""

from matplotlib.figure import Figure

from paper.report import Line, Panel
from paper.report.plots import LIGHT, page_style, plot_panels, svg_file

from .curves import Trainings
from .record import Record


def ratio_plot(record: Record) -> Figure:
    """Return a figure with one panel for each problem and a dot for each case.

    Lines are the quartiles of the ratios of neighboring runs.

    Args:
        record: The results.

    Returns:
        The figure.
    """
    problems = list(dict.fromkeys(cost.problem for cost in record.costs))
    modes = list(record.references)
    names = list(dict.fromkeys((cost.case.method, cost.case.by) for cost in record.costs))
    height = {name: -i for i, name in enumerate(names)}
    with page_style():
        size = (2 + 2.6 * len(problems), 1.4 + 0.2 * len(names))
        figure = Figure(figsize=size, layout="constrained")
        for axes, problem in zip(
            figure.subplots(1, len(problems), sharey=True, squeeze=False)[0], problems, strict=True
        ):
            for cost in (cost for cost in record.costs if cost.problem == problem):
                ratio, at = record.ratio(cost), height[cost.case.method, cost.case.by]
                index = modes.index(cost.case.mode)
                color = LIGHT[index % len(LIGHT)]
                axes.plot([ratio.low, ratio.high], [at, at], color=color, linewidth=1)
                axes.plot([ratio.fastest], [at], "o", color=color, markersize=3.8)
            axes.set_xscale("log")
            axes.set(title=problem, xlabel="ratio")
            axes.set_yticks(list(height.values()), [f"{name}, {by}" for name, by in height])
        for index, mode in enumerate(modes):
            axes.plot([], [], "o", color=LIGHT[index % len(LIGHT)], label=mode)
        figure.legend(loc="outside lower left", ncols=len(modes), frameon=False)
    return figure


def ratio_svg(record: Record) -> str:
    """Return the plot of a record as the content of an SVG file."""
    return svg_file(ratio_plot(record), record.name)


def training_svgs(trainings: Trainings) -> dict[str, str]:
    """Return a plot of the mean held-out loss for each problem, as contents of SVG files."""
    panels = [
        Panel(
            problem,
            "CPU seconds of training",
            "exact score-matching loss",
            tuple(_mean_line(trainings, problem, m) for m in trainings.methods(problem)),
            x_log=True,
        )
        for problem in trainings.problems
    ]
    plots = plot_panels(panels)
    return {plot.title: svg_file(plot.figure, plot.title) for plot in plots}


def _mean_line(trainings: Trainings, problem: str, method: str) -> Line:
    times = trainings.of(problem, method)[0].seconds[1:]
    losses = [trainings.loss_at(problem, method, t) for t in times]
    errors = tuple(loss.error or 0.0 for loss in losses)
    return Line(method, times, tuple(loss.value for loss in losses), errors)
