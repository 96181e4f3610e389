"""The one exception whose text is meant for the user: the command line prints it as is and exits with code 2."""


class UserError(Exception):
    """Something the user can mend; its message says in one sentence what is wrong and what to do."""
