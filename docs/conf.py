"""The site: `make docs` builds static files in docs/_build/html, which also work from disk."""

import re
from html import unescape
from importlib import import_module
from itertools import pairwise
from logging import getLogger
from pathlib import Path
from shutil import copytree
from urllib.parse import unquote
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from docutils.utils.math.unichar2tex import uni2tex_table
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

import fdsm

DOCS = Path(__file__).parent
MODULES = (
    "fdsm.objectives",
    "fdsm.derivatives",
    "fdsm.projections",
    "fdsm.noise",
    "fdsm.operators",
    "fdsm.models",
    "fdsm.samplers",
    "fdsm.evaluation",
    "fdsm.training",
    "fdsm.training.distributed",
    "fdsm.tables",
    "fdsm.tables.frame",
    "fdsm.tables.schema",
    "fdsm.tables.outliers",
    "fdsm.typing",
)
"""The public modules, in the order of the reference."""
SUMMARY = (
    "fdsm trains energy-based models, normalizing flows and score networks with score matching "
    "in PyTorch, by finite differences, autograd or Taylor mode, and finds unusual rows of tables."
)

project, author, release = "fdsm", "The fdsm authors", fdsm.__version__
project_copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "*.jinja", "playground"]
nitpicky = False
default_role = "code"
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # settings of the gallery contain functions

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
intersphinx_timeout = 5

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "inherited-members": False}
napoleon_custom_sections = [("Attributes", "params_style"), ("Reference", "notes_style")]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "within_subsection_order": "sphinx_gallery.sorting.FileNameSortKey",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("fdsm",),
    "inspect_global_variables": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "download_all_examples": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"fdsm {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}

TEX_OF = {
    "²": "^2",
    "³": "^3",
    "⁴": "^4",
    "½": r"\tfrac{1}{2}",
    "·": r"\cdot ",
}
"""Characters that docutils does not know."""
MATHML = "{http://www.w3.org/1998/Math/MathML}"
ACCENTS = set("ˉ˙ˆ^~˜")
ARGUMENT = r"(?:\{([^{}]*)\}|(\w))"
"""An argument of a command: in braces, or one letter or digit."""


ElementTree.register_namespace("", MATHML[1:-1])


def mathml(formula: str, *, block: bool) -> str:
    """Return a formula as MathML, which browsers show without a script or a network."""
    tex = " ".join(formula.split()).translate(str.maketrans(TEX_OF)).translate(uni2tex_table)
    # docutils needs braces around the arguments of fractions.
    tex = re.sub(rf"(\\[td]?frac)\s*{ARGUMENT}\s*{ARGUMENT}", r"\1{\2\3}{\4\5}", tex)
    try:
        text = tex2mathml(tex, as_block=block)
    except MathError as error:
        raise ValueError(f"{error} in the formula {formula}") from error
    # XML knows only some of the named characters of HTML.
    text = re.sub(r"&(?!(?:lt|gt|amp|quot);)\w+;", lambda m: unescape(m[0]), text)
    root = ElementTree.fromstring(text)
    # It places the index of a letter with an accent below the letter.
    for element in list(root.iter(f"{MATHML}munderover")):
        letter, index, accent = element
        if accent.text in ACCENTS:
            accented = ElementTree.Element(f"{MATHML}mover", {"accent": "true"})
            accented.extend([letter, accent])
            element.tag = f"{MATHML}msub"
            element[:] = [accented, index]
    # A function such as log is separated from an argument without parentheses.
    for parent in list(root.iter()):
        for function, argument in reversed([*pairwise(parent)]):
            is_function = function.tag == f"{MATHML}mi" and len(function.text or "") > 1
            if is_function and argument.tag not in {f"{MATHML}mo", f"{MATHML}mspace"}:
                space = ElementTree.Element(f"{MATHML}mspace", {"width": "0.17em"})
                parent.insert([*parent].index(argument), space)
    return ElementTree.tostring(root, encoding="unicode")


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    self.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def docstring_as_rst(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Translate the Markdown of docstrings, fences and formulas, before sections are parsed."""
    text = re.sub(
        r"^( *)```(\w*)\n(.*?)^ *```$",
        lambda m: f"{m[1]}.. code-block:: {m[2] or 'text'}\n\n" + re.sub(r"(?m)^", "    ", m[3]),
        "\n".join(lines),
        flags=re.DOTALL | re.MULTILINE,
    )
    text = re.sub(r"\$\$(.+?)\$\$", block_formula, text, flags=re.DOTALL)
    text = re.sub(
        r"(?<![\w$\\`])\$([^$\n`]+(?:\n[^$\n`]+)?)\$",
        lambda m: f":math:`{' '.join(m[1].split())}`",
        text,
    )
    lines[:] = text.split("\n")


def block_formula(match: re.Match[str]) -> str:
    """Return a formula between double dollars as a directive."""
    start = match.string.rfind("\n", 0, match.start()) + 1
    indent = " " * (match.start() - start)
    return f".. math:: {' '.join(match[1].split())}\n{indent}"


def pages_for_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Point links to files of the repository, as GitHub shows them, to pages of the site."""
    text = source[0].replace("](../examples)", "](gallery/index.rst)")
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](gallery/\1.rst)", text)
    text = re.sub(
        r"\]\(\.\./(CONTRIBUTING|CHANGELOG|SECURITY)\.md",
        lambda m: f"]({m[1].lower()}.md",
        text,
    )
    # Other files of the repository are not part of the site.
    link = r"(?<!!)\[([^\]]+)\]\(\.\./((?:benchmarks|paper)/[^)]+)\)"
    source[0] = re.sub(link, r"\1 (`\2`)", text)


def unquote_images(app: Sphinx, document: nodes.document) -> None:
    """Allow paths of images with spaces, which Markdown writes as %20."""
    for image in document.findall(nodes.image):
        image["uri"] = unquote(image["uri"])


def write_reference(app: Sphinx, config: Config) -> None:
    """Write a page for each public module: its docstring, and its names with a page each."""
    folder = DOCS / "reference"
    folder.mkdir(exist_ok=True)
    documented: set[object] = set()
    for module in MODULES:
        values = {
            name: getattr(import_module(module), name) for name in import_module(module).__all__
        }
        names = [name for name, value in values.items() if value not in documented]
        documented.update(values.values())
        lines = [
            module,
            "=" * len(module),
            "",
            f".. automodule:: {module}",
            "   :no-members:",
            "",
            f".. currentmodule:: {module}",
            "",
            ".. autosummary::",
            "   :toctree: generated",
            "   :nosignatures:",
            "",
            *(f"   {name}" for name in names),
            "",
        ]
        page = folder / f"{module}.rst"
        content = "\n".join(lines)
        if not page.exists() or page.read_text(encoding="utf8") != content:
            page.write_text(content, encoding="utf8")


def add_files(app: Sphinx, error: Exception | None) -> None:
    """Add the playground, and llms.txt, the list of pages for language models (llmstxt.org)."""
    if error is not None or app.builder.name != "html":
        return
    copytree(DOCS / "playground", Path(app.outdir) / "playground", dirs_exist_ok=True)
    titles = app.env.titles
    first = ["index", *(name for name in sorted(titles) if "/generated/" not in name)]
    pages = [f"- [{titles[name].astext()}]({name}.html)" for name in dict.fromkeys(first)]
    text = "\n".join(["# fdsm", "", f"> {SUMMARY}", "", "## Pages", *pages, ""])
    (Path(app.outdir) / "llms.txt").write_text(text, encoding="utf8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the hooks of this file."""
    # Without a network the site has no links to the documentation of other packages.
    getLogger("sphinx.sphinx.ext.intersphinx").addFilter(
        lambda record: "failed to reach any of the inventories" not in record.getMessage()
    )
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("autodoc-process-docstring", docstring_as_rst, priority=100)
    app.connect("config-inited", write_reference)
    app.connect("source-read", pages_for_the_site)
    app.connect("doctree-read", unquote_images, priority=100)
    app.connect("build-finished", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
