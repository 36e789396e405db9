"""Options that plugins for real clusters add to pytest."""


def pytest_addoption(parser):
    parser.addoption("--keep-cluster", action="store_true", default=True, dest="keep_cluster")
