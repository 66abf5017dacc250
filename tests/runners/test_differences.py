"""Two values of JSON held against each other."""

from runners.differences import differences


def test_every_member_that_differs_is_told_whole() -> None:
    """By name, inner ones with their path; long values are not cut, and equal ones are not told."""
    long = list(range(500))
    before = {"a": {"b": 1, "same": 2}, "gone": {"x": None}, "long": [*long, 1]}
    now = {"a": {"b": 2, "same": 2}, "long": [*long, 2], "new": "ü"}

    assert list(differences(before, now)) == [
        ("a.b", "1", "2"),
        ("gone.x", "null", "absent"),
        ("long", str([*long, 1]), str([*long, 2])),
        ("new", "absent", '"ü"'),
    ]
    assert list(differences(now, now)) == []


def test_an_object_that_comes_or_goes_is_told_by_its_members() -> None:
    """By itself only where it has none; a member that turned from a value to an object is told as both."""
    assert list(differences({"a": {"b": 1}}, {"a": {}})) == [("a.b", "1", "absent")]
    assert list(differences({"a": {}}, {"a": {"b": 1}})) == [("a.b", "absent", "1")]
    assert list(differences({"a": 1}, {"a": {"b": 1}})) == [("a", "1", "absent"), ("a.b", "absent", "1")]
    assert list(differences({"a": {}}, {})) == [("a", "{}", "absent")]
    assert list(differences({}, {"a": {"b": {}}})) == [("a.b", "absent", "{}")]
