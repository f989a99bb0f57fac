"""Every public name has an example, and every example runs with nothing but its own imports."""

import doctest
import inspect
import re
from pathlib import Path

import da_layers
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PUBLIC = {
    name: part
    for name, part in vars(da_layers).items()
    if not name.startswith("_") and (inspect.isclass(part) or inspect.isfunction(part))
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name):
    (test,) = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_of_the_readme_run(block):
    exec(block, {"__name__": "readme"})


@pytest.mark.parametrize("name", PUBLIC)
def test_readme_names_everything_public(name):
    assert re.search(rf"`{name}\b", README)
