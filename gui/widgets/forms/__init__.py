"""Fields of forms, and boxes to choose from.

- `fields`, `editors`: create fields; one interface for all of them
- `field_group`, `collapsible_section`: group and hide fields
- `strategy_box`, `strategy_delegate`: the box of strategies
"""
