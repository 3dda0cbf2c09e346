"""`python -m gradplan` is `gradplan`."""

import sys

from gradplan.cli import main

sys.exit(main())
