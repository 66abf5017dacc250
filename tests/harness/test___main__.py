"""harness.__main__: the console script."""

import subprocess
import sys

from tests.conftest import ROOT


def test_ctrl_c_while_the_command_is_loaded() -> None:
    """Loading takes a tenth of a second, in which a person can change her mind: 130, and no traceback."""
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from harness.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
