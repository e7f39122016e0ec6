"""Programs and walks for tests of the form."""

import pytest


@pytest.fixture
def program(tmp_path):
    from walks import Program

    program = Program(tmp_path / "private", tmp_path / "budgets")
    yield program
    program.form.close()


@pytest.fixture
def tab(program):
    from walks import Tab

    return Tab(program)


@pytest.fixture(scope="session")
def walked(tmp_path_factory):
    """A whole walk: (program, tab), with all pages that were seen."""
    from walks import BUDGET, FACTS, Program, Tab, text_of_people

    folder = tmp_path_factory.mktemp("walk")
    program = Program(folder / "private", folder / "budgets")
    tab = Tab(program)
    tab.choose(text_of_people()).post("columns", data=FACTS).wait().get("budget").post("budget", data=BUDGET)
    tab.release("preview").wait().release().wait()
    assert tab.page.startswith("result"), tab.summary()
    result = tab.page
    tab.post("evaluate?n=1", data={"target": "smokes"}).wait()
    tab.get("check").get(result)
    yield program, tab
    program.form.close()
